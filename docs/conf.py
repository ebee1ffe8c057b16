"""The site: the pages of docs/, and every README, FORMAT and DECISIONS page where it lies in the repository.

    docs/build.sh [folder]
"""

project = "corun"
copyright = "the authors of corun, Apache-2.0"
html_title = "corun"

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "cmake/*.md",
    "docs/**.md",
    "experiments/**.md",
    "hw/*.md",
    "policies/*.md",
    "python/*.md",
    "sim/**.md",
    "traces/*.md",
]

myst_heading_anchors = 3
suppress_warnings = [
    "misc.highlighting_failure",  # Pygments knows no quotes over several lines of a console
    "myst.header",  # a decision's heading is of the third level wherever it stands
    "toc.not_included",  # found by links and by the search
]

html_theme = "alabaster"
html_theme_options = {"description": "If these programs share this GPU under this policy, how fast does each run?"}
html_extra_path = ["site"]
html_copy_source = False
