"""What every backend of the Index port must show."""
