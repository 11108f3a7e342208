"""What to cite: the methods behind a result, as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tacit._version import __version__
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, leaves

__all__ = ["citation_keys", "citations"]


def _entry(kind: str, key: str, **fields: str) -> str:
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items()]
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}"


_ENTRIES: dict[str, str] = {
    key: _entry(kind, key, author=author, title=title, **{where: venue}, year=year)
    for key, kind, author, title, where, venue, year in (
        (
            "dwork2006",
            "inproceedings",
            "Dwork, Cynthia and McSherry, Frank and Nissim, Kobbi and Smith, Adam",
            "Calibrating noise to sensitivity in private data analysis",
            "booktitle",
            "Theory of Cryptography Conference",
            "2006",
        ),
        (
            "doroshenko2022",
            "article",
            "Doroshenko, Vadym and Ghazi, Badih and Kamath, Pritish and "
            "Kumar, Ravi and Manurangsi, Pasin",
            "Connect the dots: tighter discrete approximations of privacy loss distributions",
            "journal",
            "Proceedings on Privacy Enhancing Technologies",
            "2022",
        ),
        (
            "canonne2020",
            "inproceedings",
            "Canonne, Cl{\\'e}ment L. and Kamath, Gautam and Steinke, Thomas",
            "The discrete {G}aussian for differential privacy",
            "booktitle",
            "Advances in Neural Information Processing Systems",
            "2020",
        ),
        (
            "abadi2016",
            "inproceedings",
            "Abadi, Mart{\\'i}n and Chu, Andy and Goodfellow, Ian and "
            "McMahan, H. Brendan and Mironov, Ilya and Talwar, Kunal and Zhang, Li",
            "Deep learning with differential privacy",
            "booktitle",
            "ACM Conference on Computer and Communications Security",
            "2016",
        ),
        (
            "chien2021",
            "inproceedings",
            "Chien, Steve and Jain, Prateek and Krichene, Walid and "
            "Rendle, Steffen and Song, Shuang and Thakurta, Abhradeep and Zhang, Li",
            "Private alternating least squares: practical private matrix completion with tighter "
            "rates",
            "booktitle",
            "International Conference on Machine Learning",
            "2021",
        ),
        (
            "wang2015",
            "inproceedings",
            "Wang, Yu-Xiang and Fienberg, Stephen and Smola, Alex",
            "Privacy for free: posterior sampling and stochastic gradient {M}onte {C}arlo",
            "booktitle",
            "International Conference on Machine Learning",
            "2015",
        ),
        (
            "schein2019",
            "inproceedings",
            "Schein, Aaron and Wu, Zhiwei Steven and Schofield, "
            "Alexandra and Zhou, Mingyuan and Wallach, Hanna",
            "Locally private {B}ayesian inference for count models",
            "booktitle",
            "International Conference on Machine Learning",
            "2019",
        ),
        (
            "anandkumar2014",
            "article",
            "Anandkumar, Animashree and Ge, Rong and Hsu, Daniel and "
            "Kakade, Sham M. and Telgarsky, Matus",
            "Tensor decompositions for learning latent variable models",
            "journal",
            "Journal of Machine Learning Research",
            "2014",
        ),
        (
            "bernstein2019",
            "inproceedings",
            "Bernstein, Garrett and Sheldon, Daniel",
            "Differentially private {B}ayesian linear regression",
            "booktitle",
            "Advances in Neural Information Processing Systems",
            "2019",
        ),
        (
            "wang2018",
            "inproceedings",
            "Wang, Yu-Xiang",
            "Revisiting differentially private linear "
            "regression: optimal and adaptive prediction and estimation in unbounded domain",
            "booktitle",
            "Uncertainty in Artificial Intelligence",
            "2018",
        ),
        (
            "alparslan2022",
            "article",
            "Alparslan, Bar{\\i}{\\c s} and Y{\\i}ld{\\i}r{\\i}m, Sinan",
            "Statistic selection and {MCMC} for differentially private {B}ayesian estimation",
            "journal",
            "Statistics and Computing",
            "2022",
        ),
        (
            "shin2018",
            "article",
            "Shin, Hyejin and Kim, Sungwook and Shin, Junbum and Xiao, Xiaokui",
            "Privacy enhanced matrix factorization for recommendation with local "
            "differential privacy",
            "journal",
            "IEEE Transactions on Knowledge and Data Engineering",
            "2018",
        ),
        (
            "hu2023",
            "inproceedings",
            "Hu, Wentao and Fang, Hui",
            "Decentralized matrix factorization with heterogeneous differential privacy",
            "booktitle",
            "IEEE International Conference on Trust, Security and Privacy in Computing and "
            "Communications",
            "2023",
        ),
        (
            "hua2015",
            "inproceedings",
            "Hua, Jingyu and Xia, Chang and Zhong, Sheng",
            "Differentially private matrix factorization",
            "booktitle",
            "International Joint Conference on Artificial Intelligence",
            "2015",
        ),
        (
            "zhang2019",
            "article",
            "Zhang, Shun and Liu, Laixiang and Chen, Zhili and Zhong, Hong",
            "Probabilistic matrix factorization with personalized differential privacy",
            "journal",
            "Knowledge-Based Systems",
            "2019",
        ),
        (
            "imtiaz2017",
            "techreport",
            "Imtiaz, Hafiz and Sarwate, Anand D.",
            "Improved algorithms for differentially private orthogonal tensor decomposition",
            "institution",
            "Rutgers University",
            "2017",
        ),
        (
            "ermis2020",
            "phdthesis",
            "Ermi{\\c s}, Beyza",
            "{B}ayesian approaches for privacy preserving data sharing",
            "school",
            "Bo{\\u g}azi{\\c c}i University",
            "2020",
        ),
        (
            "alparslan2023",
            "mastersthesis",
            "Alparslan, Bar{\\i}{\\c s}",
            "{M}onte {C}arlo methods for data privacy applications",
            "school",
            "Sabanc{\\i} University",
            "2023",
        ),
        (
            "nissim2007",
            "inproceedings",
            "Nissim, Kobbi and Raskhodnikova, Sofya and Smith, Adam",
            "Smooth sensitivity and sampling in private data analysis",
            "booktitle",
            "ACM Symposium on Theory of Computing",
            "2007",
        ),
    )
}
_ENTRIES["tacit"] = _entry(
    "software",
    "tacit",
    author="{The tacit developers}",
    title="tacit: differentially private factorization and {B}ayesian inference",
    version=__version__,
)


def citation_keys(certificates: Mapping[str, Certificate], cites: Iterable[str] = ()) -> list[str]:
    """Return the keys of what a result rests on, from its events and its agreement.

    ``certificates`` maps holders to theirs; ``cites`` is what the agreement builds on.
    """
    keys = ["tacit"]
    private = [c for c in certificates.values() if c.is_private]
    if private:
        keys.append("dwork2006")
    if any(c.accountant == "pld" for c in private):
        keys.append("doroshenko2022")
    found = [leaf for c in private for leaf in leaves(c.event)]
    if any(isinstance(leaf, GaussianDpEvent | PoissonSampledDpEvent) for leaf in found):
        keys.append("canonne2020")
    if any(isinstance(leaf, PoissonSampledDpEvent) for leaf in found):
        keys.append("abadi2016")
    keys += [key for key in cites if key in _ENTRIES]
    return list(dict.fromkeys(keys))


def citations(keys: Iterable[str]) -> str:
    """Return BibTeX entries.

    >>> citations(["chien2021"]).splitlines()[0]
    '@inproceedings{chien2021,'
    """
    return "\n\n".join(_ENTRIES[key] for key in keys)
