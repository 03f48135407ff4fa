"""What every backend of the Ledger port must show."""
