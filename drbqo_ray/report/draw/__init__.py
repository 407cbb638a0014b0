"""The pictures of a report, as SVG that needs neither script nor network."""
