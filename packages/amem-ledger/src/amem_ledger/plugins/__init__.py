"""What this distribution brings, declared in strings: importing these modules imports no driver."""
