"""What can be handed to somebody else after sending: lists of what was sent, and a receipt that can be checked."""
