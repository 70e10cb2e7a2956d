#!/bin/sh
exec ./host $N
