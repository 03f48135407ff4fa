"""What every backend of the Store port must show."""
