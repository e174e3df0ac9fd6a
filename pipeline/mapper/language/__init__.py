"""What a mapping file may say, and how it is read."""
