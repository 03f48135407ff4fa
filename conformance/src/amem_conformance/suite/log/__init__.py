"""What every backend of the Log port must show."""
