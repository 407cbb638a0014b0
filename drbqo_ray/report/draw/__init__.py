"""How pictures are drawn: SVG that needs neither script nor network, and colors of the plots."""

# Okabe and Ito's colors: told apart by everyone, and in grey by their lightness
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
