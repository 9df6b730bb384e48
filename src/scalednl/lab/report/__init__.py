"""Records in, one page out. Imports no torch: a report is read and made where nothing can train."""
