"""Finds two mistakes that C++ allows in recorded regions (the arms of tile_if, the bodies of tile_while, range and loops over
MutTiles), which are recorded once and run on the device:

    continue     `continue` whose innermost loop is the one that tile_if expands to: it only ends the arm, what follows in the
                 user's own loop is recorded all the same. (Recording notices an arm that did nothing; this finds the rest.)
    assignment   an assignment, ++ or -- of a host variable from outside the region: it happens once, while recording, whichever
                 arm the device takes and however often the loop runs. What assigns through functions and references is not seen.

A line that means it, in a test of what recording says, carries the comment NOLINT(continue) or NOLINT(assignment).

    regions_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    regions_lint.py --database BUILD [--tree]    check the files of a compile database that have such regions (clang_query.py)
"""
import re

import clang_query

# Definitions, then the queries in order. Matchers are tried from left to right: the cheap ones come first.
DEFINITIONS = """
let branchCall callExpr(callee(functionDecl(hasName("::tessera::detail::branch"))))
let branchName declRefExpr(to(functionDecl(hasName("::tessera::detail::branch"))))
let arm cxxForRangeStmt(hasRangeInit(hasDescendant(expr(anyOf(branchCall, branchName)))))
let loopType hasUnqualifiedDesugaredType(recordType(hasDeclaration(
    namedDecl(matchesName("^::tessera::(lang::Branch|detail::Range|detail::ScheduledTiles|MutTiles)$")))))
let whileType hasUnqualifiedDesugaredType(recordType(hasDeclaration(cxxRecordDecl(hasName("::tessera::lang::While")))))
let region stmt(anyOf(cxxForRangeStmt(hasRangeInit(expr(hasType(loopType)))),
                      forStmt(hasLoopInit(declStmt(hasSingleDecl(varDecl(hasType(whileType)))))))).bind("region")
let hostType qualType(anyOf(
    isInteger(), isAnyPointer(), hasCanonicalType(realFloatingPointType()), hasCanonicalType(enumType()),
    hasDeclaration(cxxRecordDecl(hasAnyName("::tessera::tf32", "::tessera::f16", "::tessera::bf16", "::tessera::f8e4m3",
                                            "::tessera::f8e5m2")))))
let ownVariable declRefExpr(to(varDecl(hasAncestor(stmt(equalsBoundNode("region"))))))
let inProject stmt(unless(isExpansionInSystemHeader()))
let assigning stmt(anyOf(binaryOperator(isAssignmentOperator()), unaryOperator(hasAnyOperatorName("++", "--")),
                         cxxOperatorCallExpr(isAssignmentOperator())))
let target expr(hasType(hostType), unless(ownVariable), unless(hasDescendant(ownVariable)))
"""
QUERIES = {
    "continue": ("""
        match continueStmt(inProject, hasAncestor(stmt(arm).bind("arm")),
            unless(hasAncestor(stmt(anyOf(forStmt(), whileStmt(), doStmt(), cxxForRangeStmt(unless(equalsBoundNode("arm")))),
                                    hasAncestor(cxxForRangeStmt(equalsBoundNode("arm")))))))""",
                 "continue in tile_if only ends the arm; invert the condition instead"),
    "assignment": ("""
        match stmt(inProject, assigning, hasAncestor(region), anyOf(
            binaryOperator(isAssignmentOperator(), hasLHS(target)),
            unaryOperator(hasAnyOperatorName("++", "--"), hasUnaryOperand(target)),
            cxxOperatorCallExpr(isAssignmentOperator(), hasArgument(0, target))))""",
                   "a host variable assigned in a recorded region changes once, while recording; make it a Scalar or a Tile"),
}
LINT = clang_query.Lint(
    DEFINITIONS, QUERIES, opens=re.compile(r"\btile_if\b|\btile_while\b|:\s*range\(|\bMutTiles\b"), place="region",
    covers=("examples", "tests/kernels", "tests/lang", "tests/guide"), advice="See docs/guide on control flow.")

if __name__ == "__main__":
    clang_query.main(LINT, __doc__)
