"""Programs that write parts of these documents."""
