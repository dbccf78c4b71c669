"""Completions that hang, blow up or break a math verifier that is not prepared for them."""

SLOW = {
    "expansion": "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}",
    "symbolic binomial": "\\boxed{\\binom{x}{300}}",
    "integral": "\\boxed{\\int_0^1 \\sin(x^x) \\cdot e^{\\cos(x^x)} dx}",
}
"""They pass the caps, and then take minutes or gigabytes."""

CHEAP = {
    "tower": "\\boxed{10^{10^{10}}}",
    "tower of operators": "\\boxed{9**9**9**9}",
    "factorial of factorial": "\\boxed{((9!)!)!}",
    "binomial": "\\boxed{\\binom{10^9}{5 \\cdot 10^8}}",
    "500 parentheses": "\\boxed{" + "(" * 500 + "1" + ")" * 500 + "}",
    "500 fractions": "\\boxed{" + "\\frac{1}{" * 500 + "2" + "}" * 500 + "}",
    "500 open boxes": "\\boxed{" * 500 + "1",
    "3,000 terms": "\\boxed{" + "+".join(f"{n}x^{{{n}}}" for n in range(1, 3001)) + "}",
    "2,000 elements": "\\boxed{\\{" + ",".join(map(str, range(2000))) + "\\}}",
    "1 MB of text": "x" * 1_000_000,
    "1 MB in the box": "\\boxed{" + "x+" * 500_000 + "1}",
    "1 MB of digits": "\\boxed{" + "7" * 1_000_000 + "}",
    "20,000 dollar signs": "$" * 20_000,
    "minus and digits of other scripts": "\\boxed{\u2212\uff15\u0665x}",
    "NUL": "\\boxed{5\0x}",
    "lone surrogates": "\ud800\0" * 1000,
    "nothing": "",
    "an empty box": "\\boxed{}",
    "an equation of numbers": "\\boxed{5=5}",
    "two answers": "\\boxed{4 or 5}",
    "all answers": "\\boxed{" + ", ".join(map(str, range(90))) + "}",
}
"""Answers that the caps, the extraction or the comparison of text decide."""
