"""The report of a run: one offline HTML page that shows why a config was chosen.

facts            everything the page shows, as plain numbers: `gather`
posterior        what the model believes; the one module that looks into the optimizer
verdict, health  the answer in words, and what may be wrong with it
panel            what a panel is
panels           one module a panel: its data, its SVG, its matplotlib plot, its caption
draw             what pictures are made of: axes, SVG elements, HTML templates, colors
page             the facts as HTML
watch            the page of a run that goes on, served on loopback
"""
