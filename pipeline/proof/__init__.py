"""What can be given to others after sending: lists of what was sent, and a receipt that can be checked."""
