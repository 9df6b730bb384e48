"""Small programs that write files of docs/ and results/."""
