"""The attention of trained networks, in the order of the work.

`source` opens a network and its images, `scoring` observes and scores it beside its initialisation
(`untrained`), `record` writes the results with vectors for the page's `explorer`, `figures` draws
maps and overlays, and `run` does all of it for `scalednl attention`.
"""
