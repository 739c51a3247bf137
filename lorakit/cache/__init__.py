"""What the encoders said, kept on disk: many entries to a file, shared by runs and processes."""
