"""Sources in many languages, with places for names (NAME0 ...) and numbers (NUM0 ...)."""

from __future__ import annotations

SOURCES: tuple[tuple[str, str], ...] = (
    (
        "html",
        """<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>The NAME0 of the NAME1</title>
  <link rel="stylesheet" href="style.css">
</head>
<body>
  <h1>NAME0</h1>
  <p class="lead">There are <b>NUM0</b> kinds of NAME1, and NUM1 of NAME2.</p>
  <ul>
    <li><a href="/NAME3.html">NAME3</a></li>
    <li><a href="/NAME4.html">NAME4</a></li>
  </ul>
  <script>document.querySelector("h1").onclick = () => alert("NUM2");</script>
</body>
</html>
""",
    ),
    (
        "css",
        """:root { --NAME0: #1a2b3c; }
body {
  margin: 0 auto;
  max-width: NUM0rem;
  font-family: "Helvetica Neue", Arial, sans-serif;
}
.NAME1 > .NAME2:hover,
#NAME3 a::before {
  color: var(--NAME0);
  padding: NUM1px NUM2px;
  border-radius: 4px;
}
@media (max-width: 600px) {
  .NAME1 { display: none; }
  nav ul li { float: left; margin-right: NUM3px; }
}
""",
    ),
    (
        "javascript",
        """'use strict';

const NAME0 = require('./NAME1');

class NAME2 extends NAME0.Base {
  constructor(options = {}) {
    super(options);
    this.limit = options.limit ?? NUM0;
    this.items = [];
  }

  async load(url) {
    const response = await fetch(url);
    if (!response.ok) {
      throw new Error(`cannot load ${url}: ${response.status}`);
    }
    this.items = (await response.json()).filter((item) => item.NAME3 > NUM1);
    return this.items.map(({ id, NAME3 }) => ({ id, NAME3 }));
  }
}

module.exports = { NAME2 };
""",
    ),
    (
        "java",
        """package org.example.NAME0;

import java.util.ArrayList;
import java.util.List;

/** Counts what was seen. */
public final class Counter implements Comparable<Counter> {
    private static final int LIMIT = NUM0;
    private final List<String> NAME1 = new ArrayList<>();

    public void add(String name) {
        if (NAME1.size() >= LIMIT) {
            throw new IllegalStateException("more than " + LIMIT);
        }
        NAME1.add(name.trim());
    }

    @Override
    public int compareTo(Counter other) {
        return Integer.compare(NAME1.size(), other.NAME1.size());
    }

    public static void main(String[] args) {
        Counter counter = new Counter();
        for (String arg : args) {
            counter.add(arg);
        }
        System.out.println(counter.NAME1);
    }
}
""",
    ),
    (
        "cpp",
        """#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace NAME0 {

template <typename T>
class NAME1 {
 public:
  explicit NAME1(std::size_t limit) : limit_(limit) {}
  void push(const T& value) {
    if (values_.size() < limit_) values_.push_back(value);
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::size_t limit_;
  std::vector<T> values_;
};

}  // namespace NAME0

int main() {
  NAME0::NAME1<std::string> queue(NUM0);
  for (const auto& word : {"NAME2", "NAME3"}) queue.push(word);
  std::for_each(queue.begin(), queue.end(), [](const auto& s) { std::cout << s << std::endl; });
  return 0;
}
""",
    ),
    (
        "go",
        """package main

import (
	"fmt"
	"net/http"
	"sync"
)

type NAME0 struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *NAME0) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[r.URL.Path]++
	if c.count[r.URL.Path] > NUM0 {
		http.Error(w, "too many", http.StatusTooManyRequests)
		return
	}
	fmt.Fprintf(w, "NAME1 %d\\n", c.count[r.URL.Path])
}

func main() {
	handler := &NAME0{count: make(map[string]int)}
	if err := http.ListenAndServe(":80NUM1", handler); err != nil {
		panic(err)
	}
}
""",
    ),
    (
        "rust",
        """use std::collections::HashMap;
use std::fmt;

#[derive(Debug, Clone)]
pub struct Entry<'a> {
    NAME0: &'a str,
    count: u32,
}

impl<'a> fmt::Display for Entry<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.NAME0, self.count)
    }
}

pub fn count(text: &str) -> Vec<Entry<'_>> {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for word in text.split_whitespace() {
        *seen.entry(word).or_insert(0) += 1;
    }
    seen.into_iter().map(|(NAME0, count)| Entry { NAME0, count }).collect()
}

fn main() {
    for entry in count("NAME1 NAME2 NAME1").iter().take(NUM0) {
        println!("{}", entry);
    }
}
""",
    ),
    (
        "ruby",
        """require 'json'

module NAME0s
  class Store
    attr_reader :items

    def initialize(path, limit: NUM0)
      @path = path
      @limit = limit
      @items = []
    end

    def load
      JSON.parse(File.read(@path)).each do |item|
        next unless item['NAME1']
        @items << item if @items.size < @limit
      end
      self
    rescue Errno::ENOENT => e
      warn "cannot read #{@path}: #{e.message}"
    end
  end
end

puts NAME0s::Store.new(ARGV.fetch(0)).load.items.map { |i| i['NAME2'] }.sort
""",
    ),
    (
        "php",
        """<?php

declare(strict_types=1);

namespace App\\Model;

final class NAME0
{
    private array $items = [];

    public function __construct(private int $limit = NUM0)
    {
    }

    public function add(string $name): self
    {
        if (count($this->items) >= $this->limit) {
            throw new \\RuntimeException("more than {$this->limit}");
        }
        $this->items[] = trim($name);
        return $this;
    }
}

$found = (new NAME0())->add($_GET['NAME1'] ?? 'NAME2');
echo json_encode($found);
""",
    ),
    (
        "shell",
        """#!/bin/sh
# Copies what has changed since the last time.
set -eu

source=${1:?usage: $0 SOURCE TARGET}
target=${2:?}
stamp="$target/.NAME0"

if [ ! -d "$target" ]; then
    mkdir -p "$target"
fi

find "$source" -type f -newer "$stamp" 2>/dev/null | while read -r file; do
    name=$(basename "$file")
    case "$name" in
        *.tmp) continue ;;
        *) cp -p "$file" "$target/$name" && echo "copied $name" ;;
    esac
done

touch "$stamp"
exit 0
""",
    ),
    (
        "sql",
        """CREATE TABLE NAME0 (
    id INTEGER PRIMARY KEY,
    name VARCHAR(NUM0) NOT NULL,
    created TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX idx_NAME0_name ON NAME0 (name);

INSERT INTO NAME0 (id, name) VALUES (1, 'NAME1'), (2, 'NAME2'), (3, 'NAME3');

SELECT a.name, COUNT(*) AS total
FROM NAME0 AS a
LEFT JOIN NAME4_log AS b ON b.NAME0_id = a.id
WHERE a.created > '2020-01-NUM1' AND b.level >= NUM2
GROUP BY a.name
HAVING COUNT(*) > NUM3
ORDER BY total DESC;
""",
    ),
    (
        "xml",
        """<?xml version="1.0" encoding="UTF-8"?>
<catalog xmlns="http://example.org/NAME0" version="1.0">
  <NAME1 id="NUM0">
    <title>NAME2</title>
    <price currency="EUR">NUM1.50</price>
  </NAME1>
  <NAME1 id="NUM2">
    <title>NAME3</title>
    <price currency="EUR">NUM3.00</price>
  </NAME1>
  <!-- more follow -->
</catalog>
""",
    ),
    (
        "yaml",
        """version: "3"
services:
  NAME0:
    image: example/NAME0:NUM0
    restart: always
    ports:
      - "80NUM1:80"
    environment:
      - LIMIT=NUM2
      - MODE=NAME1
    depends_on: [NAME2]
  NAME2:
    image: postgres:13
    volumes:
      - data:/var/lib/NAME3
volumes:
  data: {}
""",
    ),
    (
        "ini",
        """; settings of the NAME0
[general]
name = NAME1
limit = NUM0
verbose = yes

[NAME2]
host = localhost
port = 80NUM1
path = /var/lib/NAME3

[log]
level = info
file = /var/log/NAME0.log
""",
    ),
)
"""Type, by Magika's name, and text."""
