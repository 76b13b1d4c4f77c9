"""The course's address is written everywhere, and only with a name."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from IPython.core.inputtransformer2 import TransformerManager
from sphinx.errors import ConfigError

from labkit import badges, course
from labkit.errors import LabError

ROOT = Path(__file__).parents[1]
FILES = ("README.md", "pyproject.toml", "CITATION.cff")


def texts(root: Path) -> dict[str, str]:
    paths = [root / name for name in FILES] + course.notebooks(root)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def colab_cells(root: Path) -> list[str]:
    """The source of the cell `colab` of each lesson."""
    notebooks = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in course.notebooks(root)
    ]
    return [
        "".join(cell["source"])
        for notebook in notebooks
        for cell in notebook["cells"]
        if cell["id"] == "colab"
    ]


@pytest.fixture
def course_copy(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    return tmp_path


def test_every_file_names_the_repository(course_copy: Path) -> None:
    changed = badges.write(course_copy, "someone/lab", "main")
    assert len(changed) == len(FILES) + len(course.notebooks(course_copy))
    found = texts(course_copy)
    for path in course.notebooks(course_copy):
        place = f"notebooks/{path.name}"
        assert (
            "https://mybinder.org/v2/gh/someone/lab/main"
            f"?urlpath=lab/tree/{place})" in found["README.md"]
        )
        assert f"/github/someone/lab/blob/main/{place})" in found["README.md"]
        assert (
            "git clone -q -b main https://github.com/someone/lab ~/lab"
            in (found[path.name])
        )
    urls = tomllib.loads(found["pyproject.toml"])["project"]["urls"]
    assert urls == {
        "Repository": "https://github.com/someone/lab",
        "Lessons": "https://github.com/someone/lab/tree/main/notebooks",
    }
    cited = yaml.safe_load(found["CITATION.cff"])
    assert cited["repository-code"] == "https://github.com/someone/lab"


def test_only_what_the_address_needs_is_changed(course_copy: Path) -> None:
    badges.write(course_copy, "someone/lab", "main")
    after = texts(course_copy)
    for name, before in texts(ROOT).items():
        lines = before.splitlines()
        rest = [x for x in after[name].splitlines() if x not in lines]
        assert all(
            "someone/lab" in x
            or "without installing" in x
            or "| --- |" in x
            or x == "[project.urls]"
            for x in rest
        ), name


def test_a_second_time_changes_nothing(course_copy: Path) -> None:
    badges.write(course_copy, "someone/lab", "main")
    assert badges.write(course_copy, "someone/lab", "main") == []


def test_a_fork_takes_the_place_of_the_first(course_copy: Path) -> None:
    badges.write(course_copy, "someone/lab", "main")
    badges.write(course_copy, "other/fork.2", "next")
    for name, text in texts(course_copy).items():
        assert "someone/lab" not in text, name
        assert "other/fork.2" in text, name


def test_the_site_has_buttons_once_it_has_an_address(
    course_copy: Path,
) -> None:
    (course_copy / "site").mkdir()
    shutil.copy(ROOT / "site" / "conf.py", course_copy / "site")
    conf = str(course_copy / "site" / "conf.py")
    assert "launch_buttons" not in runpy.run_path(conf)["html_theme_options"]
    badges.write(course_copy, "someone/lab", "next")
    options = runpy.run_path(conf)["html_theme_options"]
    assert options["repository_url"] == "https://github.com/someone/lab"
    assert options["repository_branch"] == "next"
    assert {"binderhub_url", "colab_url"} <= set(options["launch_buttons"])


def test_a_lesson_fetches_the_branch(course_copy: Path) -> None:
    badges.write(course_copy, "someone/lab", "main")
    badges.write(course_copy, "someone/lab", "next")
    for cell in colab_cells(course_copy):
        assert "-q -b next https://github.com/someone/lab ~/lab" in cell
        assert len(cell.splitlines()) <= 8


@pytest.mark.parametrize(
    "others",
    [
        '[project.urls]\n"Bug Tracker" = "https://a.test"\n\n',
        '[project.urls]\n# ours\nDocs = "https://a.test"\n',
        '[project.urls]\nLessons = "x"\n\nDocs = "y"\n"Repository" = "z"\n\n',
    ],
)
def test_other_addresses_are_kept(course_copy: Path, others: str) -> None:
    path = course_copy / "pyproject.toml"
    before = path.read_text(encoding="utf-8") + "\n" + others
    path.write_text(before, encoding="utf-8")
    badges.write(course_copy, "someone/lab", "main")
    text = path.read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"]["urls"]
    old = tomllib.loads(before)["project"]["urls"]
    assert urls["Repository"] == "https://github.com/someone/lab"
    kept = {k: v for k, v in old.items() if k not in ("Repository", "Lessons")}
    assert kept.items() <= urls.items()
    assert len(urls) == len(kept) + 2
    assert badges.write(course_copy, "someone/lab", "main") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[project.urls] # ours\n"Bug Tracker" = "b"\n\n# end\n',
            "[project.urls] # ours\n"
            'Repository = "{url}"\nLessons = "{url}/tree/main/notebooks"\n'
            '"Bug Tracker" = "b"\n\n# end\n',
        ),
        (
            "[ project . urls ]\n  Docs='d'  # ours\n"
            "  'Lessons' = 'old#1' # mine\n\n\"Repository\"=[1]\n[tool.x]\n",
            "[ project . urls ]\n  Docs='d'  # ours\n"
            "  'Lessons' = \"{url}/tree/main/notebooks\" # mine\n\n"
            '"Repository"="{url}"\n[tool.x]\n',
        ),
        (
            '[project.urls]\nRepository = "r"\nLessons = "l"',
            '[project.urls]\nRepository = "{url}"\n'
            'Lessons = "{url}/tree/main/notebooks"',
        ),
        (
            "[project.scripts]\n",
            '[project.urls]\nRepository = "{url}"\n'
            'Lessons = "{url}/tree/main/notebooks"\n\n[project.scripts]\n',
        ),
    ],
)
def test_what_is_no_address_of_ours_keeps_every_character(
    before: str, after: str
) -> None:
    head, url = '[project]\nname = "x"\n\n', "https://github.com/someone/lab"
    text = badges.pyproject(head + before, url, "main")
    assert text == head + after.replace("{url}", url)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[project]\n", '[project]\nurls = {Docs = "x"}\n', "no place"),
        ("[project]\n", '[project]\nurls.Docs = "x"\n', "no place"),
        ("[project]\n", "[project\n", "no valid TOML"),
        (
            "[project.scripts]\n",
            '[project.urls]\nDocs = """\nLessons = 1"""\n[project.scripts]\n',
            "no place",
        ),
    ],
)
def test_addresses_without_a_place_leave_all_as_they_are(
    course_copy: Path, old: str, new: str, said: str
) -> None:
    path = course_copy / "pyproject.toml"
    text = path.read_text(encoding="utf-8").replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    before = texts(course_copy)
    with pytest.raises(LabError, match=rf"^pyproject\.toml: .*{said}.*\.$"):
        badges.write(course_copy, "someone/lab", "main")
    assert texts(course_copy) == before


@pytest.mark.parametrize(
    "lessons",
    [
        '""',
        '"someone/lab"',
        '"https://github.com/someone/lab/notebooks"',
        '"https://github.com/someone/lab/tree/a/b/notebooks"',
        '"https://elsewhere.test/someone/lab/tree/main/notebooks"',
        '["https://github.com/someone/lab/tree/main/notebooks"]',
        "3",
    ],
)
def test_an_edited_address_is_named_by_the_site(
    tmp_path: Path, lessons: str
) -> None:
    (tmp_path / "site").mkdir()
    shutil.copy(ROOT / "site" / "conf.py", tmp_path / "site")
    (tmp_path / "pyproject.toml").write_text(
        f"[project]\n[project.urls]\nLessons = {lessons}\n"
    )
    with pytest.raises(ConfigError, match="/tree/BRANCH/notebooks") as caught:
        runpy.run_path(str(tmp_path / "site" / "conf.py"))
    assert str(caught.value).startswith("pyproject.toml: Lessons is ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lab",
        "a/b/c",
        "https://github.com/a/b",
        "a b/c",
        "-a/b",
        "a/b.git",
        "a/.",
        "a/..",
        "a/.git",
        "a/b.GIT",
        "a/b.wiki",
        "a/-b",
        "a-/b",
        "a--b/c",
        "a.git/b",
        "./b",
        "../b",
        "a" * 40 + "/b",
        "a/" + "b" * 101,
        "a/b\n",
    ],
)
def test_what_is_no_repository_is_refused(
    course_copy: Path, name: str
) -> None:
    with pytest.raises(LabError, match="OWNER/NAME"):
        badges.write(course_copy, name, "main")
    assert texts(course_copy) == texts(ROOT)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a/b", "-x", ".x", "x.", "a..b", "x.lock", "a b", ".", ".."),
        *("x.git", "HEAD", "0123456789abcdefABCD" * 2, "main\n"),
    ],
)
def test_what_is_no_branch_is_refused(course_copy: Path, name: str) -> None:
    with pytest.raises(LabError, match="branch"):
        badges.write(course_copy, "someone/lab", name)
    assert texts(course_copy) == texts(ROOT)


@pytest.mark.parametrize(
    ("repository", "branch"),
    [
        ("a" * 39 + "/" + "b" * 100, "HEADS"),
        ("a-b-1/_c.github.io", "0123456789abcdef"),
        ("0/.github", "v1.0-rc_2"),
    ],
)
def test_unusual_names_are_taken(
    course_copy: Path, repository: str, branch: str
) -> None:
    assert badges.write(course_copy, repository, branch)


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("README.md", "| lesson |"),
        ("pyproject.toml", "[project.scripts]"),
        ("notebooks/05_kv_cache_memory.ipynb", "git clone"),
    ],
)
def test_a_file_without_the_place_leaves_all_as_they_are(
    course_copy: Path, name: str, lost: str
) -> None:
    path = course_copy / name
    path.write_text(path.read_text(encoding="utf-8").replace(lost, "x"))
    before = texts(course_copy)
    with pytest.raises(LabError, match=path.name):
        badges.write(course_copy, "someone/lab", "main")
    assert texts(course_copy) == before


def test_the_cell_is_the_same_in_every_lesson() -> None:
    cells = colab_cells(ROOT)
    assert len(cells) == len(course.notebooks(ROOT))
    assert len(set(cells)) == 1


def done_by_the_cell() -> list[tuple[str, ...]]:
    """What IPython is asked for when the cell is run."""
    asked: list[tuple[str, ...]] = []
    shell = SimpleNamespace(
        run_line_magic=lambda name, line: asked.append((name, line)),
        system=lambda line: asked.append(("system", line)),
    )
    (source,) = set(colab_cells(ROOT))
    code = TransformerManager().transform_cell(source)
    names = {"get_ipython": lambda: shell}
    exec(compile(code, "colab", "exec"), names)
    return asked


def test_the_cell_does_nothing_on_a_machine_of_ones_own() -> None:
    assert done_by_the_cell() == []


def test_the_cell_fetches_and_installs_the_course_on_colab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("colab"))
    asked = done_by_the_cell()
    assert [name for name, _ in asked] == [
        *("system", "cd", "env", "pip", "system")
    ]
