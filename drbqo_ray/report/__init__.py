"""The report of a run: one offline HTML page that shows why a config was chosen.

facts            everything the page shows, as plain numbers: `gather`
posterior        what the model believes; the one module that looks into the optimizer
verdict, health  the answer in words, and what may be wrong with it
ranking, heat_map, fold_weights, radius_path, pareto, incumbent, importance, timeline,
failures         one module a panel
draw             the pictures, as SVG
page             the facts as HTML
watch            the page of a run that goes on, served on loopback
"""
