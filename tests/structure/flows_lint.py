"""Finds mistakes that C++ allows in flows, coroutines that run after the call that made them has returned:

    closure   a lambda with captures whose body is a flow: the flow refers to the closure, which usually ends before it. (g++ rejects it;
              clang does not pass the closure to the promise.)
    braces    co_await inside a braced initialiser: g++ 12 miscompiles it in one of an aggregate.
    choice    a conditional operator that makes a temporary object inside an awaited expression: g++ 12 miscompiles it.

What is not seen: a flow or task that is kept longer than what it refers to. A line that means it carries the comment NOLINT(closure),
NOLINT(braces) or NOLINT(choice).

    flows_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    flows_lint.py --database BUILD [--tree]    check the files of a compile database that have flows (clang_query.py)
"""
import re

import clang_query

# Definitions, then the queries in order.
DEFINITIONS = """
let flowType hasUnqualifiedDesugaredType(recordType(hasDeclaration(namedDecl(hasName("::tessera::Flow")))))
let inProject stmt(unless(isExpansionInSystemHeader()))
let temporaryObject expr(anyOf(cxxBindTemporaryExpr(), hasDescendant(cxxBindTemporaryExpr())))
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
    "choice": ("""
        match conditionalOperator(inProject, hasAncestor(coawaitExpr().bind("await")),
            hasType(hasUnqualifiedDesugaredType(recordType())), anyOf(hasTrueExpression(temporaryObject), hasFalseExpression(temporaryObject)),
            unless(hasAncestor(lambdaExpr(hasAncestor(coawaitExpr(equalsBoundNode("await")))))))""",
               "a conditional operator makes a temporary object in an awaited expression: g++ 12 miscompiles it; use if, or name the "
               "object first"),
}
LINT = clang_query.Lint(
    DEFINITIONS, QUERIES, opens=re.compile(r"\bFlow<"), place="flow", covers=("tests/host", "tests/api", "tests/misuse", "tests/guide"),
    advice="See docs/guide/11-asynchrony.md, what a flow refers to.")

if __name__ == "__main__":
    clang_query.main(LINT, __doc__)
