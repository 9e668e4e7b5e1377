"""`./dev bench`: what gguftool costs, beside the goals, other tools and what no program could do without."""
