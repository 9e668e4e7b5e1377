"""Licence: what the keys say of the terms, and where they part."""

from __future__ import annotations

import json

from gguftool.lint.against import from_files
from gguftool.lint.rule import Context
from tests.lint.samples import Sample, ready
from tests.lint.samples_source import CONFIG

LLAMA = "https://huggingface.co/meta-llama/Llama-3.1-8B"


def of(license: str, **more: str):  # type: ignore[no-untyped-def]
    made = ready().kv("general.license", license)
    for key, value in more.items():
        made.kv("general." + key.replace("__", "."), value)
    return made


def against(front: str) -> Context:
    card = f"---\n{front}\n---\n# A model\n".encode()
    return Context(against=from_files("./hf", {"config.json": json.dumps(CONFIG).encode(), "README.md": card}))


SAMPLES = [
    Sample("licence-missing", ready().kv("general.base_model.0.repo_url", LLAMA), "field:general.license",
           "its base model meta-llama/Llama-3.1-8B (licence llama3.1)", severity="info",
           fix="--set general.license=llama3.1", silent=of("llama3.1", base_model__0__repo_url=LLAMA)),
    Sample("licence-missing", ready().kv("general.author", "Somebody"), "field:general.license", "where it comes from",
           fix="--set 'general.license=…'"),
    # A private file that says nothing of its origin is nobody's business.
    Sample("licence-missing", ready().kv("general.organization", "Org"), silent=ready()),
    Sample("licence-unknown", of("Apache 2"), "field:general.license", "near: apache-2.0", severity="info",
           fix="--set general.license=apache-2.0", silent=of("MIT OR Apache-2.0")),
    Sample("licence-unknown", of("my own terms"), "field:general.license", "neither SPDX nor the Hub knows", fix="",
           silent=of("LicenseRef-example")),
    Sample("licence-unknown", of("other"), "field:general.license", "neither general.license.name nor .link says",
           fix="--set 'general.license.name=…'", silent=of("other", license__name="example-1.0")),
    # As the converter joins several.
    Sample("licence-unknown", of("mit,what"), "field:general.license", "'mit,what'", silent=of("mit,apache-2.0")),
    Sample("licence-contradicts-itself", of("apache-2.0", license__name="llama3.1"), "field:general.license.name",
           "general.license is apache-2.0, general.license.name is llama3.1", severity="warning",
           fix="--set 'general.license=…'", silent=of("apache-2.0", license__name="Apache License 2.0")),
    Sample("licence-contradicts-itself", of("mit", license__name="CC-BY-NC-4.0"),
           silent=of("Apache-2.0", license__name="apache-2.0")),
    Sample("licence-contradicts-itself", of("apache-2.0", license__link="https://ai.google.dev/gemma/terms"),
           "field:general.license.link", "general.license.link leads to gemma",
           silent=of("apache-2.0", license__link="https://www.apache.org/licenses/LICENSE-2.0.txt")),
    Sample("licence-contradicts-base", of("apache-2.0", base_model__0__repo_url=LLAMA), "field:general.license",
           "but its base meta-llama/Llama-3.1-8B is under llama3.1", severity="warning",
           fix="--set general.license=llama3.1", safe=False, silent=of("llama3.1", base_model__0__repo_url=LLAMA)),
    Sample("licence-contradicts-base", of("mit", source__huggingface__repository="CohereLabs/c4ai-command-r-v01"),
           message="is under cc-by-nc-4.0, which forbids commercial use",
           # Gemma 4 is under Apache 2.0, unlike its elders; and stricter terms than those of the base are no promise.
           silent=of("apache-2.0", source__repo_url="https://huggingface.co/google/gemma-4-31B")),
    Sample("licence-contradicts-base", of("mit", base_model__0__repo_url="https://huggingface.co/google/gemma-2-9b"),
           silent=of("cc-by-nc-4.0", base_model__0__repo_url="https://huggingface.co/google/gemma-2-9b")),
    Sample("licence-restricted", of("cc-by-nc-4.0"), "field:general.license", "it forbids commercial use", fix="",
           severity="info", silent=of("cc-by-4.0")),
    Sample("licence-restricted", of("llama3.1"), message="goes with every copy (its text: https://", silent=of("mit")),
    Sample("licence-restricted", of("other", license__name="mrl"), "field:general.license.name", "research only",
           silent=of("other", license__name="example-1.0")),
    # A choice that leaves a way without the restriction restricts nothing.
    Sample("licence-restricted", of("CC-BY-NC-4.0 AND MIT"), message="forbids commercial use",
           silent=of("CC-BY-NC-4.0 OR MIT")),
    Sample("source-licence", of("apache-2.0"), "field:general.license", "the source's README.md says cc-by-nc-4.0",
           context=against("license: cc-by-nc-4.0"), severity="warning", fix="--set general.license=cc-by-nc-4.0",
           silent=of("CC-BY-NC-4.0")),
    Sample("source-licence", ready(), "field:general.license", "is missing, the source's README.md says mit",
           context=against("license:\n- mit"), severity="info", silent_context=against("license: other"),
           silent=of("mit")),
    Sample("source-licence", of("mit"), message="README.md says mrl", silent=of("other", license__name="mrl"),
           context=against("license: other\nlicense_name: mrl"),
           fix="--set general.license=other --set general.license.name=mrl"),
]  # fmt: skip
