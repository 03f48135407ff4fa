"""Plugin modules: strings only, no engine."""
