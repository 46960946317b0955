// Reads server-sent events from pieces of any size.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace mortar {

/// Lines end with LF, CR or both (HTML standard, 9.2.6). Only the fields "data" and "event" are used.
class EventReader {
 public:
  using Callback = std::function<void(std::string_view name, std::string_view data)>;
  explicit EventReader(Callback callback) : callback_(std::move(callback)) {}
  void feed(std::string_view piece);

 private:
  void take_line(std::string_view line);

  Callback callback_;
  std::string line_, name_, data_;
  bool after_cr_ = false, has_data_ = false;
};

}  // namespace mortar
