"""Finds mistakes that C++ allows in flows, coroutines that run after the call that made them has returned:

    closure   a lambda with captures whose body is a flow: the flow refers to the closure, which usually ends before it. (g++ rejects it;
              clang does not pass the closure to the promise.)
    braces    co_await inside a braced initialiser: g++ 12 miscompiles it in one of an aggregate.

What is not seen: a flow or task that is kept longer than what it refers to. A line that means it carries the comment NOLINT(closure) or
NOLINT(braces).

    flows_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    flows_lint.py --database BUILD [--tree]    check the files of a compile database that have flows (clang_query.py)
"""
import re

import clang_query

# Definitions, then the queries in order.
DEFINITIONS = """
let flowType hasUnqualifiedDesugaredType(recordType(hasDeclaration(namedDecl(hasName("::tessera::Flow")))))
let inProject stmt(unless(isExpansionInSystemHeader()))
"""
QUERIES = {
    "closure": ("""
        match cxxMethodDecl(unless(isExpansionInSystemHeader()), cxxMethodDecl().bind("f"), returns(flowType),
            ofClass(cxxRecordDecl(isLambda(), has(fieldDecl()))),
            hasDescendant(stmt(anyOf(coawaitExpr(), coreturnStmt()), forFunction(functionDecl(equalsBoundNode("f"))))))""",
                "a lambda with captures is a flow: the flow refers to the closure, which usually ends before it; pass the values as "
                "parameters"),
    "braces": ("""
        match coawaitExpr(inProject, hasAncestor(initListExpr().bind("list")),
            unless(hasAncestor(lambdaExpr(hasAncestor(initListExpr(equalsBoundNode("list")))))))""",
               "co_await in a braced initialiser: g++ 12 miscompiles it; name the awaited result first"),
}
LINT = clang_query.Lint(
    DEFINITIONS, QUERIES, opens=re.compile(r"\bFlow<"), place="flow", covers=("tests/host", "tests/api", "tests/misuse", "tests/guide"),
    advice="See docs/guide/11-asynchrony.md, what a flow refers to.")

if __name__ == "__main__":
    clang_query.main(LINT, __doc__)
