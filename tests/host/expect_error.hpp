// EXPECT_ERROR(Type, statement, fragments...): the statement throws exactly that type and its text has every fragment.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#define EXPECT_ERROR(Type, statement, ...)                                                               \
  do {                                                                                                   \
    bool thrown_ = false;                                                                                \
    try {                                                                                                \
      statement;                                                                                         \
    } catch (const Type& error_) {                                                                       \
      thrown_ = true;                                                                                    \
      const std::string text_ = error_.what();                                                           \
      for (const char* fragment_ : std::initializer_list<const char*>{__VA_ARGS__}) {                    \
        EXPECT_NE(text_.find(fragment_), std::string::npos) << "no `" << fragment_ << "` in: " << text_; \
      }                                                                                                  \
    }                                                                                                    \
    EXPECT_TRUE(thrown_) << #statement " did not throw " #Type;                                          \
  } while (false)
