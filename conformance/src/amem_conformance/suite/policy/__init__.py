"""What every backend of the Policy port must show."""
