"""What a mapping does, found without sending anything: its cases, what it names, what has no effect."""
