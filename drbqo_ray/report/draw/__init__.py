"""How pictures are drawn: SVG that needs neither script nor network, and colors of the plots."""

# Okabe and Ito's colors: told apart by everyone, and in gray by their lightness
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#777777"
