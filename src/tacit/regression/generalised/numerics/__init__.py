"""Pure mathematics of generalised linear models: links, the frame of rows, a filter of rounds."""
