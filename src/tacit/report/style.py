"""The look of the report: one column on a phone, two where there is room."""

__all__ = ["CSS"]

# Text is 4.5 : 1 or more against what it stands on; nothing depends on colour alone.
CSS = """
:root { --ink: #1c2733; --soft: #4a5866; --line: #c9d1d9; --pale: #f3f6f8; --link: #005a9c; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 60rem; margin: 0 auto; padding: 1rem; }
header { border-bottom: 3px solid var(--link); }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p, li { max-width: 42rem; overflow-wrap: anywhere; }
.lead { font-size: 1.05rem; }
.soft, figcaption, caption { color: var(--soft); }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; list-style: none; }
nav a { display: inline-block; padding: .2rem 0; }
.sentence { border-left: 4px solid var(--link); background: var(--pale); margin: .8rem 0;
  padding: .6rem .9rem; max-width: none; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 1.2rem; align-items: start; }
figure { margin: .5rem 0; max-width: 30rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
figcaption, caption { font-size: .9rem; text-align: left; padding: .3rem 0; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--line); }
th[scope=row] { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: var(--pale); padding: .8rem; overflow-x: auto; font-size: .85rem; }
summary { cursor: pointer; color: var(--link); padding: .3rem 0; }
:focus-visible { outline: 3px solid #b34700; outline-offset: 2px; }
@media print { nav { display: none; } .scroll { overflow: visible; } }
""".strip()
