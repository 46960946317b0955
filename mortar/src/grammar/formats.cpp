// Each expression is a part of what its standard allows, without rarely used spellings (RFC 3339, 5321, 1123, 4291,
// 3986, 9562; ISO 8601 for durations).
#include "grammar/formats.hpp"

#include <string>

namespace mortar::grammar {
namespace {

#define MORTAR_DATE                                                                                                    \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[" \
  "0-9]"                                                                                                               \
  "|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define MORTAR_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define MORTAR_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define MORTAR_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define MORTAR_URI_CHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"

struct Format {
  std::string_view name, expression;
};

constexpr Format kFormats[] = {
    {"date", MORTAR_DATE},
    {"time", MORTAR_TIME},
    {"date-time", MORTAR_DATE "T" MORTAR_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+S)?"
     "|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+S)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"email",
     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" MORTAR_LABEL "(?:\\." MORTAR_LABEL ")+"},
    {"hostname", MORTAR_LABEL "(?:\\." MORTAR_LABEL ")*"},
    {"ipv4", MORTAR_BYTE "(?:\\." MORTAR_BYTE "){3}"},
    {"ipv6",
     "(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,7}:|(?:[0-9A-Fa-f]{1,4}:){1,6}:[0-9A-Fa-f]{1,"
     "4}"
     "|(?:[0-9A-Fa-f]{1,4}:){1,5}(?::[0-9A-Fa-f]{1,4}){1,2}|(?:[0-9A-Fa-f]{1,4}:){1,4}(?::[0-9A-Fa-f]{1,4}){1,3}"
     "|(?:[0-9A-Fa-f]{1,4}:){1,3}(?::[0-9A-Fa-f]{1,4}){1,4}|(?:[0-9A-Fa-f]{1,4}:){1,2}(?::[0-9A-Fa-f]{1,4}){1,5}"
     "|[0-9A-Fa-f]{1,4}:(?::[0-9A-Fa-f]{1,4}){1,6}|::(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,6})?)"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:" MORTAR_URI_CHAR "*(?:#" MORTAR_URI_CHAR "*)?"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
};

#undef MORTAR_DATE
#undef MORTAR_TIME
#undef MORTAR_BYTE
#undef MORTAR_LABEL
#undef MORTAR_URI_CHAR

}  // namespace

std::string_view expression_of_format(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.expression;
  }
  return {};
}

std::string_view known_formats() {
  static const std::string names = [] {
    std::string all;
    for (const Format& known : kFormats) all += (all.empty() ? "" : ", ") + std::string(known.name);
    return all;
  }();
  return names;
}

}  // namespace mortar::grammar
