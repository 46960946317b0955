"""Finds mistakes that C++ allows in flows, coroutines that run after the call that made them has returned:

    closure   a lambda with captures whose body is a flow: the flow refers to the closure, which usually ends before it. (g++ rejects it;
              clang does not pass the closure to the promise.)
    dangling  a call that makes a flow refer to what ends before it: to a temporary (a reference, a pointer, a span or a string_view
              parameter, or the object of a member function), unless the flow is run in the same expression; or to a local variable of the
              function that returns the flow.
    braces    co_await inside a braced initialiser: g++ 12 miscompiles it in one of an aggregate.

What is not seen: a flow or task that is kept longer than what it refers to, other than in these ways. A line that means it carries the
comment NOLINT(closure), NOLINT(dangling) or NOLINT(braces).

    flows_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    flows_lint.py --database BUILD [--tree]    check the files of a compile database that have flows (clang_query.py)
"""
import re

import clang_query

# Definitions, then the queries in order. `running`: the flow has ended before the expression has. `temporary` is what stands for a
# parameter of reference type; what becomes a view has the temporary inside the conversion.
DEFINITIONS = """
let flowType hasUnqualifiedDesugaredType(recordType(hasDeclaration(namedDecl(hasName("::tessera::Flow")))))
let viewType hasUnqualifiedDesugaredType(recordType(hasDeclaration(namedDecl(hasAnyName("::std::span", "::std::basic_string_view")))))
let inProject stmt(unless(isExpansionInSystemHeader()))
let running expr(anyOf(hasAncestor(coawaitExpr()), hasAncestor(cxxMemberCallExpr(callee(cxxMethodDecl(
    hasAnyName("::tessera::Flow::sync", "::tessera::Flow::on", "::tessera::Task::get")))))))
let temporary expr(anyOf(materializeTemporaryExpr(), implicitCastExpr(has(materializeTemporaryExpr()))))
let ownedTemporary materializeTemporaryExpr(hasType(hasUnqualifiedDesugaredType(recordType())), unless(hasType(viewType)))
let addressOfTemporary cxxMemberCallExpr(callee(cxxMethodDecl(hasAnyName("c_str", "data", "get"))),
    onImplicitObjectArgument(expr(temporary, unless(hasType(viewType)))))
let localOfF varDecl(hasAutomaticStorageDuration(), unless(hasType(referenceType())), hasDeclContext(functionDecl(equalsBoundNode("f"))))
let isLocal ignoringParenImpCasts(declRefExpr(to(localOfF)))
let ownedLocal declRefExpr(to(varDecl(localOfF, hasType(hasUnqualifiedDesugaredType(recordType())), unless(hasType(viewType)))))
"""
QUERIES = {
    "closure": ("""
        match cxxMethodDecl(unless(isExpansionInSystemHeader()), cxxMethodDecl().bind("f"), returns(flowType),
            ofClass(cxxRecordDecl(isLambda(), has(fieldDecl()))),
            hasDescendant(stmt(anyOf(coawaitExpr(), coreturnStmt()), forFunction(functionDecl(equalsBoundNode("f"))))))""",
                "a lambda with captures is a flow: the flow refers to the closure, which usually ends before it; pass the values as "
                "parameters"),
    "dangling": ("""
        match callExpr(inProject, callee(functionDecl(returns(flowType))), anyOf(
            expr(unless(running), anyOf(
                callExpr(forEachArgumentWithParam(temporary, parmVarDecl(hasType(referenceType())))),
                callExpr(forEachArgumentWithParam(expr(anyOf(ownedTemporary, hasDescendant(ownedTemporary))), parmVarDecl(hasType(viewType)))),
                callExpr(forEachArgumentWithParam(ignoringParenImpCasts(addressOfTemporary), parmVarDecl(hasType(pointerType())))),
                cxxMemberCallExpr(onImplicitObjectArgument(temporary)))),
            expr(unless(running), hasAncestor(returnStmt(forFunction(functionDecl().bind("f")))), anyOf(
                callExpr(forEachArgumentWithParam(isLocal, parmVarDecl(hasType(referenceType())))),
                callExpr(forEachArgumentWithParam(expr(hasDescendant(ownedLocal)), parmVarDecl(hasType(viewType)))),
                callExpr(forEachArgumentWithParam(ignoringParenImpCasts(unaryOperator(hasOperatorName("&"), hasUnaryOperand(isLocal))),
                                                  parmVarDecl(hasType(pointerType())))),
                cxxMemberCallExpr(onImplicitObjectArgument(isLocal))))))""",
                 "the flow refers to an object that ends before it; run it in this expression (.sync(), co_await), or keep the object "
                 "longer"),
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
