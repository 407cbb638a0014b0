"""The report of a run: one offline HTML page that shows why a config was chosen.

facts      what is told of a run, and everything the page shows, as plain numbers: `gather`
posterior  how the optimizer judges the configs, kept to the range of the scores
verdict    the answer in words, and what may be wrong with it
panel      what a panel is
panels     one module a panel: its data, its SVG, its matplotlib plot, its caption
draw       what pictures are made of: colors, templates, SVG elements, axes
wording    numbers and values as text
page       the facts as HTML, and as a file
watch      the page of a run that goes on, served on loopback
"""
