"""What every backend of the Tools port must show."""
