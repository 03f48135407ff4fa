"""What amem-policy brings, by name."""

from __future__ import annotations

from amem_core.plugins.spec import BackendSpec


def amem_backends() -> list[BackendSpec]:
    """Declare ``policy.rego``."""
    return [
        BackendSpec(
            port="policy",
            name="rego",
            api=(1, 0),
            settings="amem_policy.config:RegoSettings",
            factory="amem_policy.rego:open_policy",
            summary="decisions in Rego over grants.toml, in this process",
        )
    ]
