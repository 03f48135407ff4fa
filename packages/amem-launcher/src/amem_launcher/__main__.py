"""``python -m amem_launcher`` is ``amem``."""

from amem_launcher.cli import main

main()
