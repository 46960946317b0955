// One request on a connection, with the answer to it: what the source files of Connection share.
#pragma once
#include "connection.hpp"

namespace mortar {

struct Connection::Exchange {
  Admission admission;
  AccessEntry entry;
  TimePoint start = Clock::now();
  std::uint64_t in_before = 0, out_before = 0;
  int version = 11;
  bool head_only = false;   ///< the answer to HEAD
  bool keep_alive = false;  ///< what the client wants, and the request allows
  bool has_head = false, stream = false, chunked = false;
};

}  // namespace mortar
