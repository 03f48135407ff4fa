"""What becomes of a memory when a step of it fails: stopped, refused, unreadable, or half on the disk."""
