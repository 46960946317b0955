// What a program that runs models includes.
#pragma once
#include "mortar/chat_template.hpp"
#include "mortar/constraint.hpp"
#include "mortar/engine.hpp"
#include "mortar/errors.hpp"
#include "mortar/grammar.hpp"
#include "mortar/model.hpp"
#include "mortar/sampling.hpp"
#include "mortar/tokenizer.hpp"
