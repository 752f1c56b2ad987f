"""What to change: fixes proposed, the proof of what each may do, and how it becomes an edit."""
