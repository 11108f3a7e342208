"""The look of the report: a column on a phone, several where there is room; dark, and on paper."""

__all__ = ["CSS"]

# Text is 4.5 : 1 or more against what it stands on; nothing depends on colour alone. The colours
# of series differ for all common kinds of colour vision (Okabe & Ito's palette, darkened or
# lightened to 3 : 1 or more against the paper).
_DARK = """
  --ink: #e6edf3; --soft: #a9b6c2; --line: #3b4754; --pale: #1d252e; --paper: #12181f;
  --link: #7cc0ff; --accent: #4c9fe0; --raw: #4d2c14; --rawline: #f0a06a; --noisy: #17364f;
  --noisyline: #7cc0ff; --warn: #3d2f10; --above: #f08c3c; --below: #5aa9f0;
  --s0: #62b1f5; --s1: #f0904a; --s2: #3fc9a6; --s3: #d88ccb; --s4: #c9c04a; --s5: #b5bdc5;
"""
CSS = f"""
:root {{ color-scheme: light dark;
  --ink: #1c2733; --soft: #4a5866; --line: #c9d1d9; --pale: #f3f6f8; --paper: #fff;
  --link: #005a9c; --accent: #005a9c; --raw: #fde3cf; --rawline: #b34700; --noisy: #dcecf9;
  --noisyline: #005a9c; --warn: #fff4d6; --above: #c45f05; --below: #2166ac;
  --s0: #005a9c; --s1: #b34700; --s2: #00735c; --s3: #8a3a7d; --s4: #5f5f00; --s5: #444; }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK.strip()} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
header, .page, footer {{ max-width: 104rem; margin: 0 auto; padding: 1rem; }}
header {{ border-top: 4px solid var(--accent); padding-bottom: 0; }}
.page {{ padding-top: 0; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: .4rem 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.3rem; margin: 2.4rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--line); }}
main > section:first-child h2 {{ margin-top: .8rem; }}
p, li, dd {{ max-width: 46rem; overflow-wrap: anywhere; }}
.soft, caption {{ color: var(--soft); }}
a {{ color: var(--link); }}
.box {{ border: 1px solid var(--line); border-radius: 10px; background: var(--pale);
  padding: .6rem 1.1rem; margin: .8rem 0; display: grid; gap: .2rem 2.5rem; }}
.learned {{ font-size: 1.25rem; line-height: 1.4; margin: .6rem 0; }}
.warning {{ background: var(--warn); border-left: 4px solid var(--s1); padding: .4rem .7rem; }}
.own {{ background: var(--warn); border: 2px solid var(--s1); border-radius: 8px;
  padding: .4rem 1rem; font-weight: 600; max-width: none; }}
.guess p {{ margin: .4rem 0; }}
dl {{ margin: .6rem 0; }}
.facts > div {{ display: grid; grid-template-columns: 8rem minmax(0, 1fr); gap: .2rem .8rem;
  padding: .2rem 0; border-top: 1px solid var(--line); }}
dt {{ color: var(--soft); overflow-wrap: anywhere; }}
dd {{ margin: 0; }}
.words {{ columns: 24rem; column-gap: 2.5rem; }}
.words > div {{ break-inside: avoid; padding: .25rem 0; }}
.words dt {{ color: var(--ink); font-weight: 600; }}
nav ul {{ display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: 0;
  list-style: none; }}
nav a {{ display: inline-block; padding: .25rem 0; }}
.exact {{ font-size: .92rem; max-width: 60rem; }}
.grid {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr));
  gap: 1.2rem 2rem; align-items: start; grid-auto-flow: dense; }}
.grid > * {{ min-width: 0; }}
.wide {{ grid-column: 1 / -1; }}
figure {{ margin: .5rem 0; max-width: 34rem; }}
figcaption, caption {{ font-size: .95rem; text-align: left; padding: .3rem 0;
  overflow-wrap: anywhere; }}
svg {{ width: 100%; height: auto; display: block; }}
svg text {{ font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: var(--ink); }}
svg .soft {{ fill: var(--soft); }}
svg line {{ stroke: var(--ink); }}
svg .grid {{ stroke: var(--line); }}
.s0 {{ --c: var(--s0); }} .s1 {{ --c: var(--s1); }} .s2 {{ --c: var(--s2); }}
.s3 {{ --c: var(--s3); }} .s4 {{ --c: var(--s4); }} .s5 {{ --c: var(--s5); }}
svg .line {{ stroke: var(--c); stroke-width: 2; fill: none; }}
svg .fill {{ fill: var(--c); }}
svg .pale {{ fill-opacity: .45; stroke: var(--c); stroke-width: .8; }}
svg .above {{ fill: var(--above); }} svg .below {{ fill: var(--below); }}
svg .nothing {{ fill: none; stroke: var(--line); }}
svg .track {{ fill: var(--paper); stroke: var(--line); }}
svg .raw {{ fill: var(--raw); stroke: var(--rawline); }}
svg .noisy {{ fill: var(--noisy); stroke: var(--noisyline); }}
svg .ink {{ fill: var(--ink); }}
svg .barrier {{ fill: var(--paper); stroke: var(--ink); }}
.scroll {{ overflow-x: auto; margin: .6rem 0; max-width: 100%; }}
table {{ border-collapse: collapse; font-size: .92rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0;
  border-bottom: 1px solid var(--line); }}
td {{ max-width: 40rem; }}
.long {{ overflow-wrap: anywhere; min-width: 12rem; }}
th[scope=row] {{ font-weight: 600; }}
thead th {{ color: var(--soft); font-weight: 600; vertical-align: bottom; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
pre {{ background: var(--pale); padding: .8rem; overflow-x: auto; font-size: .85rem; }}
summary {{ cursor: pointer; color: var(--link); padding: .35rem 0; overflow-wrap: anywhere; }}
:focus-visible {{ outline: 3px solid var(--s1); outline-offset: 2px; }}
@media (min-width: 56rem) {{ .box {{ grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }}
  .wide-left {{ display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
    gap: 2.5rem; }} }}
@media screen and (min-width: 76rem) {{
  .page {{ display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 2.5rem; }}
  nav {{ position: sticky; top: 1rem; align-self: start; margin-top: .8rem; }}
  nav ul {{ flex-direction: column; }} }}
@page {{ margin: 16mm 14mm; }}
@media print {{
  body {{ font-size: 10.5pt; }}
  header, .page, footer {{ padding: 0; }}
  nav {{ display: none; }}
  .scroll {{ overflow: visible; }}
  h1, h2, summary, figcaption, caption {{ break-after: avoid; }}
  figure, tr, .box, .words > div {{ break-inside: avoid; }}
  .box, .wide-left {{ display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
    gap: 0 6mm; }}
  figure {{ max-width: 95mm; }}
  .words {{ columns: 60mm; }}
  table {{ font-size: 9pt; }}
  th, td {{ padding: .15rem .7rem .15rem 0; }}
  .grid {{ display: block; }}
  .grid > * {{ display: inline-block; width: 48%; vertical-align: top; margin-right: 1%; }}
  .grid > .broad {{ display: block; width: auto; }}
  pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
  svg, .box, .warning {{ print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }}
  details:not(.printed) {{ display: none; }}
  .printed::details-content {{ content-visibility: visible; display: block; height: auto; }}
}}
""".strip()
