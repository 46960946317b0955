// Schemas, keyword by keyword: what is accepted, what is not, and the messages for what is not supported.
#include "grammars.hpp"

namespace mortar::grammar {
namespace THIS_FILE {

using ::testing::HasSubstr;

struct Case {
  const char* schema;
  std::vector<const char*> accepted, rejected;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    const auto grammar = shared(Grammar::from_json_schema(c.schema));
    for (const char* text : c.accepted) EXPECT_TRUE(matches(grammar, text)) << text;
    for (const char* text : c.rejected) EXPECT_FALSE(matches(grammar, text)) << text;
  }
}

TEST(Schema, Types) {
  check({{R"({"type": "null"})", {"null"}, {"nul", "0", "nulll", " null"}},
         {R"({"type": "boolean"})", {"true", "false"}, {"True", "1"}},
         {R"({"type": "integer"})", {"0", "-1", "12345678901234567890", "-0"}, {"1.5", "01", "+1", "1e3", ""}},
         {R"({"type": "number"})", {"0", "-1.50", "1e9", "1.5E-7"}, {"1.", ".5", "01", "1e", "NaN"}},
         {R"({"type": "string"})",
          {R"("")", R"("a\n\u00e9é")", R"("\ud83d\ude00")"},
          {R"("\ud83d")", R"("\x")", "\"\n\"", "\"a", "a"}},
         {R"({"type": ["string", "null"]})", {R"("a")", "null"}, {"1"}},
         {R"({"type": "string", "nullable": true})", {R"("a")", "null"}, {"1"}},
         {"true", {"1", R"({"a": [1, {"b": null}]})", "[]"}, {"{", "[1,]"}},
         {"{}", {"1", "[true]"}, {"tru"}}});
}

TEST(Schema, EnumAndConst) {
  check({{R"({"enum": ["a", "b\n", 1, null, true, "ä"]})",
          {R"("a")", R"("b\n")", "1", "null", "true", R"("ä")"},
          {R"("c")", "2", "false", R"("\u0061")"}},
         {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
         {R"({"const": {"a": [1, 2], "b": {}}})",
          {R"({"a":[1,2],"b":{}})", R"({"a": [1, 2], "b": {}})"},
          {R"({"b":{},"a":[1,2]})", R"({"a":[1],"b":{}})"}},
         {R"({"const": []})", {"[]", "[ ]"}, {"[1]"}}});
}

TEST(Schema, BoundsOfNumbers) {
  check({{R"({"type": "integer", "minimum": 1, "maximum": 14})", {"1", "9", "14"}, {"0", "15", "-1", "01", "1.0"}},
         {R"({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 3})", {"-2", "0", "2"}, {"-3", "3"}},
         {R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"}},
         {R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "0.5", "1", "1.0", "0.000"}, {"1.1", "-0.1", "2"}},
         {R"({"type": "number", "exclusiveMinimum": 0})", {"0.1", "5", "123.4"}, {"0", "0.0", "-1"}},
         {R"({"minimum": 3, "exclusiveMinimum": 3, "maximum": 1e1})", {"3.5", "10"}, {"3", "11", "\"a\""}}});
}

TEST(Schema, Strings) {
  check({{R"({"type": "string", "minLength": 2, "maxLength": 3})",
          {R"("ab")", R"("äöü")", R"("a\n")", R"("\ud83d\ude00a")"},
          {R"("a")", R"("abcd")", R"("")"}},
         {R"({"type": "string", "minLength": 3})", {R"("abc")", R"("abcdefgh")"}, {R"("ab")"}},
         {R"({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"})",
          {R"("2026-11")"},
          {R"("2026-1")", R"("x2026-11")", R"("2026-11 ")"}},
         {R"({"type": "string", "pattern": "ab"})", {R"("ab")", R"("xaby")", R"("\nab")"}, {R"("ba")", R"("a")"}},
         {R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 4})",
          {R"("a")", R"("abcd")"},
          {R"("")", R"("abcde")", R"("A")"}},
         {R"({"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 5})",
          {R"("abab")"},
          {R"("ab")", R"("aba")", R"("ababab")"}},
         {R"({"type": "string", "pattern": "\"\\\\"})", {R"("\"\\")"}, {R"("\"")"}},
         {R"({"type": "string", "format": "date"})",
          {R"("2026-11-28")", R"("2024-02-29")"},
          {R"("2026-02-30")", R"("2026-13-01")", R"("2023-02-29")"}},
         {R"({"format": "date-time"})",
          {R"("2026-11-28T20:00:00Z")", R"("2026-11-28T20:00:00.5+01:00")"},
          {R"("2026-11-28 20:00:00Z")", R"("2026-11-28T24:00:00Z")"}},
         {R"({"format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
         {R"({"format": "email"})", {R"("a.b@example.org")"}, {R"("a@b")", R"("a b@c.de")"}},
         {R"({"format": "ipv4"})", {R"("127.0.0.1")", R"("255.255.255.0")"}, {R"("256.0.0.1")", R"("1.2.3")"}},
         {R"({"format": "ipv6"})",
          {R"("::1")", R"("2001:db8::8a2e:370:7334")", R"("::")"},
          {R"("1::2::3")", R"("12345::")"}},
         {R"({"format": "hostname"})", {R"("example.org")"}, {R"("-a.org")"}},
         {R"({"format": "uri"})", {R"("https://example.org/a?b=c#d")"}, {R"("example.org")"}},
         {R"({"format": "time"})", {R"("20:00:00Z")"}, {R"("20:00")"}},
         {R"({"format": "duration"})",
          {R"("P1Y2M3DT4H5M6S")", R"("PT5M")", R"("P3W")"},
          {R"("P")", R"("PT")", R"("P1S")"}}});
}

TEST(Schema, Arrays) {
  check(
      {{R"({"type": "array", "items": {"type": "integer"}})",
        {"[]", "[1]", "[1,2]", "[1, 2]", "[\n  1,\n  2\n]"},
        {"[1 ,2]", "[1,]", "[,1]", "[\"a\"]", "[\n\n1]", "[  1]"}},
       {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
        {"[1,2]", "[1,2,3]"},
        {"[]", "[1]", "[1,2,3,4]"}},
       {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1})", {"[1]", "[1,2,3,4]"}, {"[]"}},
       {R"({"type": "array", "items": {"type": "integer"}, "minItems": 3})", {"[1,2,3]", "[1,2,3,4,5]"}, {"[1,2]"}},
       {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
       {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
       {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2})",
        {"[1,\"a\"]"},
        {"[1]", "[]", "[1,\"a\",2]", "[\"a\",1]"}},
       {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})",
        {"[]", "[1]", "[1,\"a\"]"},
        {"[1,\"a\",2]"}},
       {R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
        {"[1,null]", "[1,null,null]"},
        {"[1]", "[1,1]", "[1,null,null,null]"}},
       {R"({"items": {"items": {"type": "null"}, "maxItems": 1}, "maxItems": 2})",
        {"[[null],[]]"},
        {"[[],[],[]]", "[[null,null]]"}}});
}

TEST(Schema, Objects) {
  check(
      {{R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "boolean"}}, "required": ["b"]})",
        {R"({"b":null})", R"({"a": 1, "b": null})", R"({"a":1,"b":null,"c":true})", R"({"b":null, "c": false})",
         "{\n  \"b\": null\n}"},
        {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,})", R"({"b":null,"d":1})", R"({"b" :null})"}},
       {R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})",
        {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
        {R"({"b":1,"a":1})", R"({,"b":1})"}},
       {R"({"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "string"}})",
        {R"({"a":1})", R"({"a":1,"ab":"x"})", R"({"a":1, "":"x", "é":"y"})", R"({"a":1,"b":"1","c":"2"})"},
        {R"({"a":1,"a":"x"})", R"({"a":1,"b":2})", R"({"b":"x"})", R"({"a":1,"\u0061":"x"})"}},
       {R"({"properties": {"a": {"type": "integer"}, "no": false}, "additionalProperties": true})",
        {"{}", R"({"x":[1]})", R"({"a":1,"x":null})"},
        {R"({"no":1})", R"({"x":1,"a":1})"}},
       {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
        {"{}", R"({"x":1})", R"({"x":1, "y":2})"},
        {R"({"x":"1"})"}},
       {R"({"type": "object", "additionalProperties": false})", {"{}", "{ }"}, {R"({"x":1})"}},
       {R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2, "maxProperties": 3})",
        {R"({"a":null,"b":null})", R"({"a":null,"b":null,"c":null})"},
        {"{}", R"({"a":null})", R"({"a":null,"b":null,"c":null,"d":null})"}},
       {R"({"type": "object", "propertyNames": {"pattern": "^x"}, "additionalProperties": {"type": "integer"}})",
        {"{}", R"({"x1":1})"},
        {R"({"y":1})"}},
       {R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false})",
        {"{}", R"({"x1":1,"x2":2})"},
        {R"({"y":1})", R"({"x":"1"})"}},
       {R"({"type": "object", "required": ["a"]})", {R"({"a":1})", R"({"a":[],"b":1})"}, {"{}", R"({"b":1})"}}});
}

TEST(Schema, ReferencesAndRecursion) {
  check(
      {{R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}})",
        {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
        {R"({"v":1,"next":{}})", R"({"v":1})"}},
       {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
       {R"({"type": "array", "maxItems": 2, "items": {"$ref": "#"}})",
        {"[[],[[],[]]]"},
        {"[[],[],[]]", "[[[],[],[]]]"}},
       {R"({"properties": {"a": {"$ref": "#/definitions/x~1y"}}, "definitions": {"x/y": {"const": 5}}})",
        {R"({"a":5})"},
        {R"({"a":6})"}},
       {R"({"properties": {"a": {"$ref": "#/$defs/s", "maxLength": 2}}, "$defs": {"s": {"type": "string", "minLength": 1}}})",
        {R"({"a":"xy"})"},
        {R"({"a":""})", R"({"a":"xyz"})"}}});
  EXPECT_THAT(schema_error(R"({"$ref": "#"})"), HasSubstr("refers to itself"));
  EXPECT_THAT(
      schema_error(R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})"),
      HasSubstr("refers to itself"));
  EXPECT_THAT(schema_error(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("no answer is possible"));
}

TEST(Schema, Combinations) {
  check(
      {{R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
        {"1", R"("a")"},
        {R"("ab")", "null"}},
       {R"({"type": "object", "properties": {"k": {"type": "string"}}, "anyOf": [{"required": ["k"]}, {"properties": {"x": {"type": "null"}}, "required": ["x"]}]})",
        {R"({"k":"v"})", R"({"x":null})", R"({"k":"v","x":null})"},
        {"{}"}},
       {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t", "x"]}, {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"]}]})",
        {R"({"t":"a","x":1})", R"({"t":"b"})"},
        {R"({"t":"a"})", R"({"t":"b","x":1})"}},
       {R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "null"}}})",
        {"1", "\"\"", "null"},
        {"true"}},
       {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}, "a": {"minimum": 3}}}]})",
        {R"({"a":3})", R"({"a":3,"b":null})"},
        {R"({"a":2})", R"({"b":null})"}},
       {R"({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"c": {"$ref": "#"}}}], "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}}}})",
        {R"({"a":1,"c":{"a":2}})"},
        {R"({"c":1})"}},
       {R"({"type": ["integer", "null"], "allOf": [{"type": ["number", "string"]}]})", {"1"}, {"null", "1.5", "\"\""}},
       {R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]})", {"2", "3"}, {"1", "4"}}});
}

TEST(Schema, WhatIsNotSupportedIsNamedWithItsPath) {
  struct Error {
    const char *schema, *path, *message;
  };
  const Error errors[] = {
      {R"({"type": "array", "uniqueItems": true})", "/uniqueItems", "not supported"},
      {R"({"properties": {"a": {"not": {"type": "null"}}}})", "/properties/a/not", "not supported"},
      {R"({"properties": {"a/b": {"items": {"multipleOf": 3}}}})", "/properties/a~1b/items/multipleOf",
       "not supported"},
      {R"({"anyOf": [{"type": "null"}, {"if": true}]})", "/anyOf/1/if", "not supported"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"contains": true}}})", "/$defs/a/contains", "not supported"},
      {R"({"$ref": "other.json"})", "/$ref", "within the schema"},
      {R"({"$ref": "#/$defs/b"})", "/$ref", "has no #/$defs/b"},
      {R"({"type": "strin"})", "/type", "name of a type"},
      {R"({"format": "color"})", "/format", "date-time"},
      {R"x({"pattern": "(?=a)"})x", "/pattern", "look-ahead"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "/oneOf", "branches 0 and 1"},
      {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": 1}}}, {"type": "object", "properties": {"t": {"const": 2}}}]})",
       "/oneOf", "branches 0 and 1"},
      {R"({"enum": ["a"], "maxLength": 3})", "/maxLength", "beside enum"},
      {R"({"maxLength": -1})", "/maxLength", "whole number"},
      {R"({"minLength": 3, "maxLength": 2})", "/maxLength", "less than minLength"},
      {R"({"minimum": 5, "maximum": 2})", "", "no value is accepted"},
      {R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2})", "", "no value is accepted"},
      {R"({"exclusiveMinimum": true})", "/exclusiveMinimum", "expected a number"},
      {R"({"items": [true]})", "/items", "prefixItems"},
      {R"({"properties": {"a": true}, "additionalProperties": false, "required": ["b"]})", "/required", "'b'"},
      {R"({"properties": {"a": true}, "minProperties": 1})", "/minProperties", "not supported"},
      {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "/pattern", "cannot be joined"},
      {R"({"properties": {"a": 5}})", "/properties/a", "expected a schema"},
      {R"({"enum": []})", "", "no value is accepted"},
      {"false", "", "no value is accepted"},
      {R"({"type": "string", "type": "null"})", "", "occurs twice"},
      {"{", "", "schema"}};
  for (const Error& e : errors)
    EXPECT_THAT(schema_error(e.schema), testing::AllOf(HasSubstr("schema"), HasSubstr(e.path), HasSubstr(e.message)))
        << e.schema;
}

TEST(Schema, AnnotationsAndUnknownKeywordsDemandNothing) {
  check(
      {{R"({"title": "T", "description": "d", "default": 3, "examples": [1], "$schema": "s", "deprecated": true, "x-order": 1, "uniqueItems": false, "type": "integer"})",
        {"1"},
        {"\"a\""}}});
}

TEST(Schema, CompilingIsLimited) {
  const GrammarLimits small{.source_bytes = 1000, .steps = 20'000};
  EXPECT_THAT(schema_error(R"({"pattern": "^(a|b|ab){0,3000}$"})", small), HasSubstr("more than 20000 steps"));
  EXPECT_THAT(schema_error(R"({"pattern": "(a|b)*a(a|b){20}"})"), HasSubstr("steps"));  // a million states
  EXPECT_THAT(schema_error(R"({"pattern": "^((((a{1000}){1000}){1000}){1000})$"})"), HasSubstr("steps"));
  EXPECT_THAT(schema_error(R"({"pattern": "^(((){1000}){1000}){1000}$"})"), HasSubstr("steps"));
  EXPECT_THAT(schema_error(R"({"pattern": "^(ab|c)*$", "maxLength": 4000000000})"), HasSubstr("steps"));
  EXPECT_THAT(schema_error(std::string(2000, ' ') + "true", small), HasSubstr("2004 bytes"));
  EXPECT_THAT(schema_error(std::string(200, '[') + std::string(200, ']')), HasSubstr("within each other"));
  std::string doubling = R"({"$defs": {"a0": {"type": "integer"}, )";  // inlined it would have 2^40 parts
  for (int i = 1; i <= 40; ++i) {
    const std::string before = "{\"$ref\": \"#/$defs/a" + std::to_string(i - 1) + "\"}";
    doubling += "\"a" + std::to_string(i) + "\": {\"properties\": {\"l\": " + before + ", \"r\": " + before + "}}, ";
  }
  EXPECT_EQ(schema_error(doubling + R"("z": true}, "$ref": "#/$defs/a40"})"), "no error");
  EXPECT_EQ(schema_error(R"({"type": "string", "maxLength": 1000000})", small), "no error");
  EXPECT_EQ(schema_error(R"({"type": "array", "maxItems": 1000000})", small), "no error");
}

}  // namespace THIS_FILE
}  // namespace mortar::grammar
