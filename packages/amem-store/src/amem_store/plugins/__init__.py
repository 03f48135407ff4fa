"""What this distribution provides, as names: nothing here imports a backend."""
