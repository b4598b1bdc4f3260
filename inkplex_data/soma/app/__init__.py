"""What people run: training, chat and dreams in the terminal, and the local page that does the same in child processes."""
