"""How backends and other plugins are declared, found, checked and opened."""
