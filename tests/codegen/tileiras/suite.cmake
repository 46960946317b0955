# Test data of tests/ir, which these tests read too.
target_compile_definitions(test_codegen_tileiras PRIVATE TESSERA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
