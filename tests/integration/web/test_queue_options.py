"""The form for a new queue has a field for every option, and the queue's page shows each."""

from __future__ import annotations

import re

from stafette.model import QUEUE_OPTIONS
from tests.support.web_process import Web


async def test_every_option_is_asked_for_made_and_shown(site: Web) -> None:
    async with site.api() as browser:
        form = (await browser.get("/queues/-/new")).text
        for name, option in QUEUE_OPTIONS.items():
            assert re.search(rf'<label for="{name}">{option.label}', form), name
            assert f'name="{name}"' in form
        assert (await browser.post("/queues/-/new", data={"name": "form-dead"})).status_code == 303
        filled = {"exclude_own": "1", "max_body": "2048", "max_deliveries": "7", "dead_letter": "form-dead"}
        assert set(filled) == set(QUEUE_OPTIONS)
        answer = await browser.post("/queues/-/new", data={"name": "form-made", **filled})
        assert answer.status_code == 303
        page = (await browser.get("/queues/form-made")).text
    shown = dict(re.findall(r"<dt>(.*?)</dt><dd>\s*(.*?)\s*</dd>", page, re.DOTALL))
    expected = ("yes", "2.0 KiB", "7", '<a href="/queues/form-dead">form-dead</a>')
    assert tuple(shown[option.label] for option in QUEUE_OPTIONS.values()) == expected


async def test_a_form_that_is_wrong_keeps_what_was_typed(site: Web) -> None:
    async with site.api() as browser:
        answer = await browser.post("/queues/-/new", data={"name": "wrong", "max_body": "a lot", "exclude_own": "1"})
    assert answer.status_code == 400
    assert "max_body: &#39;a lot&#39; is not a whole number between 0 and 67,108,864" in answer.text
    assert 'name="max_body" value="a lot"' in answer.text
    assert re.search(r'name="exclude_own"[^>]* checked>', answer.text)
