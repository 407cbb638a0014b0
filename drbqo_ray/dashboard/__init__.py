"""The dashboard: one served page that lists the runs of a folder, and follows them.

shelf     the runs as they are on disk, read again only when a journal has changed
server    who may ask, and for what; standard library only
page.*    the page; it asks for JSON every two seconds and builds everything as text
"""
